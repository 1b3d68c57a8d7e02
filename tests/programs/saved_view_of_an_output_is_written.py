import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([4], generator=generator, dtype=torch.float32)).requires_grad_()
    return [x0], [x0]


def program(x0):
    t1 = torch.where(x0 == x0, x0, x0)
    t2 = t1 * 2
    t3 = t2.unsqueeze(0)
    torch.nn.functional.relu(t3, inplace=True)
    return (t2,)
