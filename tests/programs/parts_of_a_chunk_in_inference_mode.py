import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([4, 1, 4], generator=generator, dtype=torch.float64)
    x0 = b0[1:3]
    return [x0], []


def program(x0):
    with torch.inference_mode():
        t2, t3 = torch.unsafe_chunk(x0, 2, -3)
    t4 = t3.select(-1, 0)
    t5 = t4.view(torch.int64)
    t6 = t5.squeeze(0)
    return (t6,)
