import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = torch.randint(-5, 6, [3, 3], generator=generator)
    return [x0], []


def program(x0):
    with torch.inference_mode():
        t2, t3 = x0.tensor_split(2, -2)
        t4 = t3 + t2
    t5 = t4.transpose(0, 0)
    return (t5,)
