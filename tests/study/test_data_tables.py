"""Tables of features, and the folds of a cross-validation."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from study import data
from study.data import tables

# "distinct" and "conflicts": distinct rows, and feature vectors that occur in more than one class,
# counted apart from this package
DUPLICATES = {
    "Hayes-Roth": (61, 3),
    "TeachingAssistantEvaluation": (110, 4),
    "BanknoteAuthentication": (1348, 0),
    "CongressionalVotingRecords": (160, 0),
    "WebsitePhishing": (724, 48),
    "Haberman": (289, 6),
    "Iris": (147, 0),
    "BreastTissue": (105, 0),
}

REAL_SIZE = tables._size
SMALL = "a,b,vote,class\n1,2.5,y,yes\n-1,1e3,n,no\n1,2.5,n,no\n0,0,y,-1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A local folder with one small file under the name of a real one.

    That table has four samples, three features and three classes then.
    """
    monkeypatch.setenv("GDLIB_DATA", str(tmp_path))
    sized(monkeypatch, 4, 3, 3)
    write(tmp_path, SMALL)
    return tmp_path


def sized(monkeypatch, *size: int) -> None:
    monkeypatch.setattr(tables, "_size", lambda name: size)


def write(root: Path, text: str | bytes, name: str = "haberman") -> Path:
    file = root / "uci" / f"{name}.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


class TestTable:
    def test_numbers_words_and_classes(self, folder):
        table = data.table("uci/haberman")
        assert (
            table.features.tolist() == [[1, 2.5, 1], [-1, 1000, 0], [1, 2.5, 0], [0, 0, 1]]
            and table.features.dtype == torch.float32
        )
        assert (
            table.class_names == ("-1", "no", "yes")
            and table.labels.tolist() == [2, 1, 1, 0]
            and table.labels.dtype == torch.int64
        )
        assert (len(table.labels), len(table.class_names), table.source) == (4, 3, "local")
        assert table.copy == "sha256 " + hashlib.sha256(SMALL.encode()).hexdigest()[:16]

    def test_spaces_around_a_cell_mean_nothing(self, folder):
        write(
            folder,
            SMALL.replace(",yes", ", yes ").replace("vote,", " vote ,").replace(",y,", ",y ,"),
        )
        table = data.table("uci/haberman")
        assert table.class_names == ("-1", "no", "yes")
        assert table.features.tolist() == [[1, 2.5, 1], [-1, 1000, 0], [1, 2.5, 0], [0, 0, 1]]

    def test_a_damaged_file_is_named(self, folder, subtests):
        for text, message in [
            ("", "is no CSV file with a header"),
            ("a,b\n1,2\n", r"another layout: .* got \['a', 'b'\]"),
            ("a,class\n", "another layout"),
            ("class\n1\n", "another layout"),
            ("a,class\n1,x\n2\n", "line 3 has less than 2 cells, or no class"),
            ("a,class\n1,x\n2,3,y\n", "2 fields in line 3, saw 3"),
            ("a,class\n1,x\n2,\n", "line 3 has less than 2 cells, or no class"),
            ("a,class\n1,x\n?,y\n", r"line 3: '\?' is no number .*drop rows with missing values"),
            ("a,class\n,x\n", "line 2: '' is no number"),
            ("a,class\nnan,x\n", "line 2: 'nan' is no number"),
            ("a,class\ninf,x\n", "line 2: 'inf' is no number"),
            (b"a,class\n\xff\xfe,x\n", "is no CSV file with a header"),
            ("a,class\n1e39,x\n", "line 2: '1e39' is no number of float32"),
            (
                "a,b,class\n1,2,x\n3,4,y\n5,6,z\n7,8,x\n",
                r"features, classes\) are \(4, 2, 3\), not \(4, 3, 3\)",
            ),
            ("a,b,c,class\n" + "1,2,3,x\n" * 4, r"are \(4, 3, 1\), not \(4, 3, 3\)"),
            ("a,b,c,class\n1,2,3,x\n4,5,6,y\n7,8,9,z\n", r"are \(3, 3, 3\), not \(4, 3, 3\)"),
        ]:
            write(folder, text)
            with (
                subtests.test(str(text)),
                pytest.raises(ValueError, match=f"haberman.csv.*{message}"),
            ):
                data.table("uci/haberman")

    def test_a_missing_file_says_where_to_get_it(self, folder):
        for load in (data.table, data.load):
            with pytest.raises(
                FileNotFoundError,
                match=r"no file .*iris.csv. Set GDLIB_DATA "
                r".*UCI repository .*OpenML .*fetch_openml",
            ):
                load("uci/iris")

    def test_unknown_names(self):
        with pytest.raises(
            ValueError,
            match="unknown table 'haberman'; "
            "valid: iris, wine, breast_cancer, uci/pima-indians-diabetes",
        ):
            data.table("haberman")

    def test_embedded(self):
        for name, size, features, classes in [
            ("iris", 150, 4, 3),
            ("wine", 178, 13, 3),
            ("breast_cancer", 569, 30, 2),
        ]:
            table = data.table(name)
            assert (table.features.shape, len(table.class_names), table.source) == (
                (size, features),
                classes,
                "embedded",
            )
            assert table.copy.startswith("scikit-learn ")


class TestLoad:
    def test_a_fifth_to_test_on(self, folder, monkeypatch):
        sized(monkeypatch, 40, 1, 2)
        rows = "".join(f"{index},{'ab'[index % 4 == 0]}\n" for index in range(40))
        write(folder, "x,class\n" + rows)
        dataset = data.load("uci/haberman", normalization="none", validation_size=4)
        assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (28, 4, 8)
        parts = [dataset.train, dataset.valid, dataset.test]
        assert sorted(value for part in parts for value in part.inputs.flatten().tolist()) == list(
            range(40)
        )
        assert all((part.labels == (part.inputs[:, 0] % 4 == 0)).all() for part in parts)
        assert [int(part.labels.sum()) for part in parts] == [7, 1, 2]
        assert dataset.source == "local" and dataset.copy.endswith(
            ", stratified 80/20 split with seed 0"
        )

    def test_every_table_has_a_name(self):
        assert set(data.table_names()) <= set(data.names()) and len(data.UCI) == 15


def counts_by_fold(values: torch.Tensor, fold: torch.Tensor, n_folds: int) -> np.ndarray:
    return np.array(
        [
            np.bincount(values[fold == index], minlength=int(values.max()) + 1)
            for index in range(n_folds)
        ]
    )


class TestFolds:
    @settings(max_examples=50)
    @given(
        st.lists(st.integers(0, 4), min_size=2, max_size=80),
        st.integers(0, 1_000),
        st.data(),
    )
    def test_even(self, labels, seed, drawn):
        n_folds = drawn.draw(st.integers(2, len(labels)))
        labels = torch.tensor(labels)
        fold = data.folds(labels, n_folds, seed)
        assert fold.dtype == torch.int64 and fold.shape == labels.shape
        sizes = np.bincount(fold, minlength=n_folds)
        assert len(sizes) == n_folds and sizes.max() - sizes.min() <= 1
        assert np.ptp(counts_by_fold(labels, fold, n_folds), axis=0).max() <= 1

    @settings(max_examples=50)
    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=4, max_size=80),
        st.integers(0, 99),
        st.data(),
    )
    def test_groups_are_not_torn_apart(self, samples, seed, drawn):
        labels, groups = torch.tensor(samples).T
        number = len(groups.unique())
        if number < 2:
            return
        n_folds = drawn.draw(st.integers(2, number))
        fold = data.folds(labels, n_folds, seed, groups)
        assert fold.unique().tolist() == list(range(n_folds))
        assert all(len(fold[groups == group].unique()) == 1 for group in groups.unique())

    def test_groups_of_one_are_stratified_as_well(self):
        labels = torch.tensor([0] * 50 + [1] * 23 + [2] * 17)
        fold = data.folds(labels, 10, 3, groups=torch.arange(90))
        assert (
            np.ptp(counts_by_fold(labels, fold, 10), axis=0).max() <= 1
            and np.ptp(np.bincount(fold)) <= 2
        )

    def test_duplicates_cost_little_balance(self):
        generator = torch.Generator().manual_seed(0)
        features = torch.randint(0, 4, (300, 3), generator=generator)
        labels = (features[:, 0] > 2).long()
        fold = data.folds(labels, 10, groups=data.duplicate_groups(features, 0 * labels))
        counts = counts_by_fold(labels, fold, 10)
        assert (np.abs(counts - counts.mean(0)) <= 6).all()  # a group has up to 12 samples

    def test_seeds(self):
        labels = torch.arange(60) % 3
        groups = torch.arange(60) // 2
        for options in ({}, {"groups": groups}):
            one, same, other = (data.folds(labels, 10, seed, **options) for seed in (0, 0, 1))
            assert torch.equal(one, same) and not torch.equal(one, other)

    def test_no_fold_is_favoured(self):
        # 11 samples in 10 folds: the one that is left over goes to every fold in turn
        larger = {
            int(np.bincount(data.folds(torch.zeros(11), 10, seed)).argmax()) for seed in range(100)
        }
        assert larger == set(range(10))

    def test_samples_fall_independently(self):
        together = sum(
            int(fold[0] == fold[1])
            for fold in (data.folds(torch.zeros(20), 10, seed) for seed in range(2_000))
        )
        assert abs(together / 2_000 - 1 / 19) < 0.02

    def test_labels_may_have_any_number(self):
        assert torch.equal(data.folds([7, 7, -3, -3], 2), data.folds(torch.tensor([1, 1, 0, 0]), 2))

    def test_the_folds_of_today(self):
        # records are repeated with these; another deal must not pass unseen
        assert data.folds(torch.arange(12) % 2, 4, seed=1).tolist() == [
            1,
            0,
            3,
            3,
            0,
            2,
            0,
            3,
            2,
            1,
            2,
            1,
        ]
        assert data.folds(
            torch.arange(12) % 2, 4, seed=1, groups=torch.arange(12) // 2
        ).tolist() == [1, 1, 3, 3, 2, 2, 3, 3, 0, 0, 1, 1]

    def test_refused(self):
        with pytest.raises(ValueError, match=r"\[2, 6\], the number of samples; got 1"):
            data.folds(torch.zeros(6), 1)
        with pytest.raises(ValueError, match="got 7"):
            data.folds(torch.zeros(6), 7)
        with pytest.raises(
            ValueError, match=r"n_folds must lie in \[2, 3\], the number of groups; got 4"
        ):
            data.folds(torch.zeros(6), 4, groups=[0, 0, 1, 1, 2, 2])
        with pytest.raises(ValueError, match="one number for each of the 6 samples; got 2"):
            data.folds(torch.zeros(6), 2, groups=[0, 1])


class TestDuplicateGroups:
    @given(
        st.lists(
            st.tuples(st.sampled_from([0.0, -0.0, 1.5, 2.0]), st.integers(0, 1), st.integers(0, 1)),
            min_size=1,
            max_size=30,
        )
    )
    def test_against_pairs(self, rows):
        features, labels = (
            torch.tensor([row[:2] for row in rows]),
            torch.tensor([row[2] for row in rows]),
        )
        plain, with_labels = (
            data.duplicate_groups(features, 0 * labels),
            data.duplicate_groups(features, labels),
        )
        for one in range(len(rows)):
            for other in range(len(rows)):
                equal = rows[one][:2] == rows[other][:2]
                assert bool(plain[one] == plain[other]) == equal
                assert bool(with_labels[one] == with_labels[other]) == (
                    equal and rows[one][2] == rows[other][2]
                )
        first = [plain.tolist().index(group) for group in range(int(plain.max()) + 1)]
        assert first == sorted(first)


class TestRealTables:
    @pytest.fixture
    def uci(self, data_folder: Path, monkeypatch) -> Path:
        monkeypatch.setattr(tables, "_size", REAL_SIZE)
        if not (data_folder / "uci").is_dir():
            pytest.skip("the real UCI tables were not tested: the local data folder has no uci/")
        monkeypatch.setenv("GDLIB_DATA", str(data_folder))
        return data_folder

    def test_values_and_duplicates(self, uci, subtests):
        for name in data.UCI:
            with subtests.test(name):
                self.hold(name)

    def hold(self, name: str) -> None:
        table = data.table(name)
        assert (
            table.labels.unique().tolist() == list(range(len(table.class_names)))
            and torch.isfinite(table.features).all()
        )
        distinct, conflicts = DUPLICATES.get(data.UCI[name], (len(table.labels), 0))
        groups = data.duplicate_groups(table.features, 0 * table.labels)
        assert len(data.duplicate_groups(table.features, table.labels).unique()) == distinct
        assert (
            sum(
                len(table.labels[groups == group].unique()) > 1
                for group in range(int(groups.max()) + 1)
            )
            == conflicts
        )
        fold = data.folds(table.labels, groups=groups)
        assert all(
            len(fold[groups == group].unique()) == 1 for group in range(int(groups.max()) + 1)
        )
        assert np.ptp(np.bincount(fold)) <= 6

    def test_iris_differs_from_that_of_scikit_learn_in_two_rows(self, uci):
        differ = (data.table("uci/iris").features != data.table("iris").features).any(1)
        assert differ.nonzero().flatten().tolist() == [34, 37]
