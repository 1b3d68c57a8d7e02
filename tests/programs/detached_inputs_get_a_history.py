import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([5, 4], generator=generator, dtype=torch.float32)
    x0 = b0[1:4]
    y0 = x0.detach()
    b1 = (torch.randn([1, 3], generator=generator, dtype=torch.float64)).requires_grad_()
    x1 = b1.clone().transpose(0, -1)
    return [x0, y0, x1], [b1]


def program(x0, y0, x1):
    t1 = x0.copy_(x1)
    t2 = y0.sub_(2)
    return (0,)
