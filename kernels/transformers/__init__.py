"""Operator tables: transformer and LSTM models in training and inference."""
