import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([4], generator=generator, dtype=torch.float32)
    x0 = b0.transpose(0, -1)
    return [x0], []


def program(x0):
    t1 = x0.abs()
    t2 = t1.select(-1, 2)
    t3 = t2 * t2.sum().item()
    return (t3,)
