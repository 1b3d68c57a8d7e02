import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([3, 3], generator=generator, dtype=torch.complex64)).requires_grad_()
    x0 = b0 * 1.0
    return [x0], [b0]


def program(x0):
    t1 = x0.real
    t1.mul_(t1)
    t3 = x0.H
    t3[-1] *= 3
    return (0,)
