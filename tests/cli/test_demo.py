"""The table of the demonstration: filled within seconds, nearer to the truth than straight lines."""

import pandas as pd

from tsimpute.cli.demo import fill_demo_table, tables


def test_a_generated_table_is_filled_and_compared_with_the_truth(tmp_path):
    compared = fill_demo_table(tmp_path, lambda text: None, n_days=30)
    truth, given = tables(30)
    filled = pd.read_csv(tmp_path / "filled.csv", index_col="time", parse_dates=True)
    assert filled.notna().all(axis=None)
    assert filled.where(given.notna()).equals(given)
    error, straight = (filled - truth).abs(), (given.interpolate(limit_direction="both") - truth).abs()
    assert compared["gaps"].tolist() == given.isna().sum().tolist()
    for name, of_table in (("MAE, filled", error), ("MAE, linear interpolation", straight)):
        wanted = of_table.where(given.isna()).mean().tolist()
        assert all(abs(a - b) < 1e-9 for a, b in zip(compared[name], wanted, strict=True))
    assert (compared["MAE, filled"] / compared["MAE, linear interpolation"]).mean() < 0.9
    assert 0.8 < compared["inside 90 % interval"].mean() < 0.98
    assert (tmp_path / "filled.png").read_bytes().startswith(b"\x89PNG")
