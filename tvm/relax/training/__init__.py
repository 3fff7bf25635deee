"""relax.training: losses, optimizers, and what makes a model one that learns."""
from . import loss, optimizer, trainer, utils
from .setup_trainer import SetupTrainer
from .trainer import Trainer
from .utils import AppendLoss

__all__ = ["AppendLoss", "SetupTrainer", "Trainer", "loss", "optimizer", "trainer", "utils"]
