"""What is learnt beside the first answer, within a time: a network, randomised trees."""
