import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = torch.randn([2, 1, 4], generator=generator, dtype=torch.float64)
    x1 = b1.transpose(0, -1)
    y1 = x1.detach()
    return [y1], []


def program(y1):
    torch.nn.functional.dropout(y1, 0.5, inplace=True)
    return (0,)
