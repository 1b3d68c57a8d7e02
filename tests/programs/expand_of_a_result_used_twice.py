import torch

W = torch.zeros([6]).requires_grad_()


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return [], [W]


def program():
    t1 = W.reshape([6])
    t2 = t1.expand(2, -1)
    t3 = t2 * t1
    t4 = t3.roll(1, 0)
    t5 = t2.flatten()
    return (t5, t1, t4)
