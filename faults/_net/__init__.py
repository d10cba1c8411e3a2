"""What the network faults share: where they act, whom they mean, how packets are led there and measured."""
