"""Methods of other packages behind the contract of an imputer, one file each: ``registry.make("peers", name)``."""
