import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([2, 1, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0.chunk(2)[0]
    y0 = b0
    return [x0, y0], [b0]


def program(x0, y0):
    t1 = y0 * y0.sum().item()
    t3 = t1.add_(x0)
    t4 = torch.autograd.grad(t3.sum(), y0, retain_graph=True, allow_unused=True, materialize_grads=True)[0]
    return (t4,)
