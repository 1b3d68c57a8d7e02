import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    c1 = b1 * 1.0
    x1 = c1.chunk(2)[0]
    return [x1], [b1]


def program(x1):
    t1 = x1 + x1
    t2 = t1.select(1, 3)
    t4, t5 = torch.unsafe_chunk(t1, 2, 1)
    t2.abs_()
    return (t4, t1)
