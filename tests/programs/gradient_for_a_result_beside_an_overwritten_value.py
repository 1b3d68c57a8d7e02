import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([2, 3, 4], generator=generator, dtype=torch.complex64)).requires_grad_()
    return [x0], [x0]


def program(x0):
    t1 = x0 * x0.conj()
    t2 = torch.where(x0 == t1, x0, t1)
    t1[torch.tensor([1, 0], dtype=torch.int64)] = 3
    t2.mul_(t2)
    t3 = t1.contiguous()
    t4 = t2.sub_(t3)
    return (t3, t4)
