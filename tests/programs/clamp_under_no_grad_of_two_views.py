import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([1, 3], generator=generator, dtype=torch.float32)).requires_grad_()
    return [x0], [x0]


def program(x0):
    t1 = x0.flatten()
    with torch.no_grad():
        t2 = x0.T
        t1.clamp_(min=-0.5)
    return (t2,)
