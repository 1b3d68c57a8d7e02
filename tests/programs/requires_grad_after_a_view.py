import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([8], generator=generator, dtype=torch.float32)).requires_grad_()
    x1 = torch.randn([4, 4], generator=generator, dtype=torch.float32)
    return [x1], [b0]


def program(x1):
    t1 = x1.movedim(0, -1)
    x1.requires_grad_()
    return (t1,)
