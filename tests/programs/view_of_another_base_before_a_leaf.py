import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = torch.randn([2, 3, 4], generator=generator, dtype=torch.float32)
    x1 = b1.transpose(0, -1)
    y1 = x1
    return [x1, y1], []


def program(x1, y1):
    t1 = y1.select(-2, 2)
    t3 = y1.requires_grad_()
    t4 = x1.unsqueeze(0)
    return (t1, y1)
