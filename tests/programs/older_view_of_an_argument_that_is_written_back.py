import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([1, 3], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0 * 1.0
    y0 = x0.flatten()[::2]
    return [x0, y0], [b0]


def program(x0, y0):
    t4 = y0.view(-1)
    y0[...] = 1.25
    t5 = t4.exp().clamp(max=3.0)
    t7, t8 = torch.unsafe_chunk(t5, 2, 0)
    return (t7,)
