import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([1, 3], generator=generator).requires_grad_()
    return [b0 * 1.0], [b0]


def program(x0):
    t0 = torch.nn.functional.dropout(x0, 0.5)
    t1 = x0.data
    t2 = t0.view(t0.shape)
    t1.requires_grad_()
    return t1, t2
