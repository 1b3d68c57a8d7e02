import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([6], generator=generator, dtype=torch.complex64)
    x0 = b0[1:5]
    y0 = x0
    return [x0, y0], []


def program(x0, y0):
    t1 = x0 * x0.conj()
    t2 = y0.data
    return (t2,)
