import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([6], generator=generator, dtype=torch.complex64)).requires_grad_()
    x0 = b0 * 1.0
    y0 = x0.detach()
    return [x0, y0], [b0]


def program(x0, y0):
    t1 = x0.data
    t1[:-1] += 1
    x0.index_copy_(0, torch.tensor([1, 0]), x0[:2] * 2)
    t2 = t1 * x0
    return (t2,)
