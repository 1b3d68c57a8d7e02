import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b2 = torch.randn([1, 3], generator=generator, dtype=torch.complex64)
    x2 = b2 * 1.0
    return [x2], []


def program(x2):
    t1 = x2.conj()
    x2.mul_(1.25)
    t2 = t1.to(torch.complex64)
    t3 = t2 * 0.5
    t1.copy_(t3)
    return (t3,)
