ALTER TABLE trajectories SET (fillfactor = 30);

ALTER TABLE rollouts SET (fillfactor = 50);
