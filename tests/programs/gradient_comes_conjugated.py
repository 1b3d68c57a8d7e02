import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([2, 1, 4], generator=generator, dtype=torch.complex64)).requires_grad_()
    x0 = b0 * 1.0
    return [x0], [b0]


def program(x0):
    x0.real.mul_(2)
    t3 = x0.conj()
    return (t3,)
