import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0.diagonal()
    x1 = torch.randn([1, 3], generator=generator, dtype=torch.complex64)
    return [x0, x1], [b0]


def program(x0, x1):
    x1.add_(x0)
    t1 = x1.conj()
    t4 = t1.add_(x0)
    return (0,)
