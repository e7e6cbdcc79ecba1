"""Native forms of torchvision's transforms."""
