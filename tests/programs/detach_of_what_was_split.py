import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([2, 1, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x1 = b1 * 1.0
    return [x1], [b1]


def program(x1):
    t2, t3 = x1.tensor_split(2, 0)
    x1.add_(3)
    x1.detach_()
    return (t2,)
