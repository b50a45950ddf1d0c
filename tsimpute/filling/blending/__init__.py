"""What fills a table: draws of a Gaussian process, moved towards other methods and calibrated on observed cells.

A Gaussian process gives joint draws of all missing cells; other methods give one value for each missing cell.

1. Hidden cells, about a tenth of the observed ones, are set aside before anything is fitted.
2. The process and the other methods are fitted without them: the blind fit.
3. The gaps of the table, moved to other times and features, cover observed cells that are neither hidden nor missing;
   the blind fit fills them without their values (``moved_gaps``).
4. There the methods are compared: each in turn moves the median of the draws some of the way towards its value, by a
   weight for each feature and class of gap lengths, as long as that lowers the CRPS (``blend``).
5. A gain counts only beyond its standard error over independent gaps, so that few gaps change nothing.
6. At the hidden cells a factor widens or narrows the draws about their median, and methods that remember single values
   get their weights.
7. Where an effort trains a network, a share of the draws is the network's, chosen at the hidden cells, too
   (``choosing``).
8. All is fitted again to all values, with these weights, and that fills the table (``first_answer``).
9. The quantiles of its draws are calibrated on the hidden cells, as the blind fit draws them, and on further cells that
   only the draws do not see (``measuring``).
10. Reported scores are those of the blind fit at the hidden cells, with weights and calibration from the other half of
    them.
"""
