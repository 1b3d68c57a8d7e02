import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    return [x0], [x0]


def program(x0):
    t2 = x0.contiguous()
    t3 = x0.detach_()
    t4 = t2.narrow(1, 3, 1)
    t3.requires_grad_()
    return (t4,)
