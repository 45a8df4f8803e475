"""A model of time of AMD's hot loops: instructions as they are issued, cycle by cycle."""
