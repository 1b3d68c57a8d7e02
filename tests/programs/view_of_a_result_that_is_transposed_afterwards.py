import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([6, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x1 = (b1 * 1.0)[1:5]
    return [x1], [b1]


def program(x1):
    t1 = torch.cat([x1, x1], 0)
    t2 = t1.transpose(0, -2)
    t1.t_()
    t3 = t2 + 3
    return (t3, t1)
