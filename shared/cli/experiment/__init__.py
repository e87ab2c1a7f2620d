"""`tandem experiment`: the arms of the paper's comparison over several seeds, as jobs; statistics, plots, a page."""
