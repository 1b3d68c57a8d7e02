import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([6], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = (b0 * 1.0)[1:5]
    x1 = torch.randn([2, 3, 4], generator=generator, dtype=torch.float32)
    y1 = x1[:-1]
    return [x0, x1, y1], [b0]


def program(x0, x1, y1):
    t1 = y1.permute(0, 1, 2)
    y1[:, :] = x0[0]
    t2 = x1.detach_()
    return (t1,)
