import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([6], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = (b0 * 1.0)[1:5]
    return [x0], [b0]


def program(x0):
    t1 = x0.as_strided([2], [1])
    torch.nn.functional.leaky_relu(t1, inplace=True)
    return (0,)
