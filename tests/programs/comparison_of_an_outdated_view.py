import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([4, 3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = (b0 * 1.0)[1:3]
    b1 = torch.randn([5, 4], generator=generator, dtype=torch.float32)
    y1 = b1
    return [x0, y1], [b0]


def program(x0, y1):
    t2, t3 = y1.split([1, 4], 0)
    t4 = t3.squeeze()
    y1[torch.tensor([1, 0], dtype=torch.int64)] = x0[0, 0]
    t7 = t4 > 0
    return (0,)
