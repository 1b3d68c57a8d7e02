import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([2, 1, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    return [x0], [x0]


def program(x0):
    t1 = x0 + 0.5
    t3 = t1.view_as(t1)
    t5, t6 = torch.var_mean(t1, 0)
    t3.masked_scatter_(t3 > 0, t3.exp())
    return (t6,)
