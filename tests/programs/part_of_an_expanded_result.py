import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([4, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    return [x0], [x0]


def program(x0):
    t1 = x0.diagonal()
    t2 = torch.where(t1 > 0, t1, t1 * 0.5)
    t3 = t2.expand(2, -1)
    t7, t8 = t3.split([1, 1], -2)
    t9 = torch.nn.functional.gelu(x0)
    t9.add_(t8)
    return (t3, t9)
