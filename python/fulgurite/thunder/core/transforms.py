"""``thunder.core.transforms``: the registry of gradient rules, and gradients as functions."""

from fulgurite import grad as grad
from fulgurite import value_and_grad as value_and_grad
from fulgurite import vjp as vjp
from fulgurite.rules import VJPDual as VJPDual
from fulgurite.rules import augmented_forward_impls as augmented_forward_impls
from fulgurite.rules import backward_impls as backward_impls
from fulgurite.rules import get_grad as get_grad
from fulgurite.rules import put_grad as put_grad
from fulgurite.rules import register_augmented_forward as register_augmented_forward
from fulgurite.rules import register_backward as register_backward
from fulgurite.rules import register_grad as register_grad


def put_grads(arguments: tuple, gradients: tuple) -> None:
    """``put_grad`` for several arguments."""
    for argument, gradient in zip(arguments, gradients, strict=True):
        put_grad(argument, gradient)
