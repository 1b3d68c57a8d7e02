import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x1 = (torch.randn([4], generator=generator, dtype=torch.float32)).requires_grad_()
    y1 = x1
    return [x1, y1], [x1]


def program(x1, y1):
    t1 = x1.requires_grad_(False)
    t3, t4 = y1.tensor_split(2, -1)
    return (t4,)
