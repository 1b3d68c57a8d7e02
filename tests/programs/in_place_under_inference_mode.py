import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0.clone().transpose(0, -1)
    return [x0], [b0]


def program(x0):
    t1 = x0.abs()
    t2 = t1.detach()
    with torch.inference_mode():
        t3 = t1.sin_()
        t4 = t3.T
    t2.squeeze_()
    return (t4,)
