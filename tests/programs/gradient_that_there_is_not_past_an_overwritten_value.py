import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([2, 1, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0 * 1.0
    b1 = (torch.randn([4], generator=generator, dtype=torch.float32)).requires_grad_()
    x1 = b1 * 1.0
    return [x0, x1], [b0, b1]


def program(x0, x1):
    torch._foreach_mul_([x0, x1], 2)
    t2, t3 = x1.sort(0)
    t3.zero_()
    return (t2,)
