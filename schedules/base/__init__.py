"""What rules of all targets stand on: lowering configs, spaces, the rule."""
