"""Rows of the tables of Criteo's terabyte set without values that occur less than 15 times, C1 to C26."""

FL15_ROWS = [7912889, 33823, 17139, 7339, 20046, 4, 7105, 1382, 63, 5554114, 582469, 245828, 11, 2209, 10667, 104, 4, 968, 15,
             8165896, 2675940, 7156453, 302516, 12022, 97, 35]
