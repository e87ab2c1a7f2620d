"""What every Tandem service shares: the wire, the algorithm, policies, agents and environments."""
