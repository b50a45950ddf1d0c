"""Further methods that improve the first answer: a network, randomised trees."""
