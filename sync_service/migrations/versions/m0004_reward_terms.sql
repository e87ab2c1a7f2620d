ALTER TABLE rollouts
    ADD COLUMN r_protocol DOUBLE PRECISION
        CONSTRAINT r_protocol_in_bounds CHECK (r_protocol >= 0 AND r_protocol <= 1),
    ADD COLUMN r_efficiency DOUBLE PRECISION
        CONSTRAINT r_efficiency_in_bounds CHECK (r_efficiency >= 0 AND r_efficiency <= 1),
    ADD COLUMN r_diversity DOUBLE PRECISION
        CONSTRAINT r_diversity_in_bounds CHECK (r_diversity >= 0 AND r_diversity <= 1);
