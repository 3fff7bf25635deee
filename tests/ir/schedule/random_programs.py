"""Programs drawn at random: a few stages over small arrays, each stage of a kind that schedules treat differently."""
from ingot.ir import te, tir


def random_program(rng):
    """A PrimFunc of 2 to 4 stages; `rng` is a random.Random or hypothesis' stand-in for one."""
    rank = rng.choice([1, 2, 2])
    source = te.placeholder(tuple(rng.randint(1, 9) for _ in range(rank)), name="A")
    stages = [source]
    for number in range(rng.randint(2, 4)):
        kind = rng.choice(STAGES)
        made = kind(rng, stages, f"S{number}")
        stages.append(made if made is not None else _scaled(rng, stages, f"S{number}"))
    return te.create_prim_func([source, stages[-1]])


def _pick(rng, stages):
    """A stage, most often the last."""
    return stages[-1] if rng.random() < 0.6 else rng.choice(stages)


def _sizes(stage):
    return [int(e) for e in stage.shape]


def _scaled(rng, stages, name):
    x = _pick(rng, stages)
    factor = rng.choice([0.5, 2.0, -1.0])
    return te.compute(x.shape, lambda *i: x[i] * factor + 1.0, name=name)


def _joined(rng, stages, name):
    x = _pick(rng, stages)
    others = [s for s in stages if _sizes(s) == _sizes(x) and s is not x]
    if not others:
        return None
    y = rng.choice(others)
    return te.compute(x.shape, lambda *i: tir.max(x[i], y[i]) - y[i], name=name)


def _stencil(rng, stages, name):
    x = _pick(rng, stages)
    sizes = _sizes(x)
    axis, reach = rng.randrange(len(sizes)), rng.choice([1, 2])
    if sizes[axis] <= reach:
        return None
    shape = [e - reach * (d == axis) for d, e in enumerate(sizes)]
    return te.compute(shape, lambda *i: x[i] + x[tuple(v + reach * (d == axis) for d, v in enumerate(i))], name=name)


def _turned(rng, stages, name):
    x = _pick(rng, stages)
    return te.compute(_sizes(x)[::-1], lambda *i: x[i[::-1]] + 0.5, name=name)


def _bordered(rng, stages, name):
    x = _pick(rng, stages)
    sizes, before = _sizes(x), rng.choice([0, 1, 2])

    def element(*i):
        inside = tir.And(i[0] >= before, i[0] < sizes[0] + before)
        return tir.if_then_else(inside, x[(i[0] - before, *i[1:])], 0.0)

    return te.compute([sizes[0] + before + 1, *sizes[1:]], element, name=name)


def _reduced(rng, stages, name):
    x = _pick(rng, stages)
    sizes = _sizes(x)
    reduce = rng.choice([te.sum, te.max, te.min])
    axis = te.reduce_axis((0, sizes[-1]), "r" + name)
    if len(sizes) == 1:
        return te.compute((1,), lambda i: reduce(x[axis] * 1.0, axis), name=name)
    return te.compute(sizes[:-1], lambda *i: reduce(x[(*i, axis)], axis), name=name)


def _pooled(rng, stages, name):
    x = _pick(rng, stages)
    sizes = _sizes(x)
    if sizes[0] < 3:
        return None
    axis = te.reduce_axis((0, 3), "r" + name)
    return te.compute([sizes[0] - 2, *sizes[1:]], lambda *i: te.sum(x[(i[0] + axis, *i[1:])], axis), name=name)


def _product(rng, stages, name):
    x = _pick(rng, stages)
    sizes = _sizes(x)
    if len(sizes) == 1:
        return te.compute((sizes[0], sizes[0]), lambda i, j: x[i] * x[j], name=name)
    axis = te.reduce_axis((0, sizes[1]), "r" + name)
    return te.compute((sizes[0], sizes[0]), lambda i, j: te.sum(x[i, axis] * x[j, axis], axis), name=name)


def _flattened(rng, stages, name):
    x = _pick(rng, stages)
    sizes = _sizes(x)
    if len(sizes) == 1:
        return None
    return te.compute((sizes[0] * sizes[1],), lambda i: x[i // sizes[1], i % sizes[1]] * 3.0, name=name)


STAGES = [_scaled, _scaled, _joined, _stencil, _turned, _bordered, _reduced, _pooled, _product, _flattened]
