import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([2, 1, 4], generator=generator, dtype=torch.complex64)).requires_grad_()
    x0 = b0.clone().transpose(0, -1)
    mean = torch.zeros(4)
    return [x0, mean], [b0]


def program(x0, mean):
    t1 = x0.clone()
    t1[-1, -1] *= -1.5
    with torch.no_grad():
        t2 = t1[...]
        t3 = mean.select(-1, 2)
    t5 = t3 * t2
    return (t5,)
