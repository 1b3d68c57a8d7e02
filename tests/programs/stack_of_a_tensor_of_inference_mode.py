import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x2 = torch.randn([3, 4], generator=generator, dtype=torch.complex64)
    return [x2], []


def program(x2):
    t1 = x2.conj()
    with torch.inference_mode():
        t2 = t1.angle()
    t4 = torch.stack([t2, t2])
    return (t4,)
