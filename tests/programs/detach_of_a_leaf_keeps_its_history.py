import torch

W = torch.zeros([4]).requires_grad_()


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    w = W.detach()
    return [w], [W]


def program(w):
    t1 = w.reshape([4])
    t1 += W
    with torch.no_grad():
        W.index_add_(0, torch.tensor([0, 1]), W[:2] * 2)
    return (0,)
