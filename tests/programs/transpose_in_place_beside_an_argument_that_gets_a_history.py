import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([4, 4], generator=generator, dtype=torch.float32)
    x0 = b0[::2]
    y0 = b0[1::2]
    x2 = (torch.randn([3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    with torch.no_grad():
        y2 = x2[0]
    return [x0, y0, y2], [x2]


def program(x0, y0, y2):
    y0.t_()
    t2 = x0.copy_(y2)
    return (0,)
