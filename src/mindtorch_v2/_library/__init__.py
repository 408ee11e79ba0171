"""What torch.library is made of: schemas out of annotations, registrations, autograd of custom operators, opcheck."""
